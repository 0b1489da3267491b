"""Keeping indexes true: what is wrong with them, and the verbs that mend it. Never imports query or ingest."""
