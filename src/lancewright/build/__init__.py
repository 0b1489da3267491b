"""Rows to segments: resolve a request, plan (pure), run tasks, commit what still fits."""
