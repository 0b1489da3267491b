"""Settings every unit test shares: properties are tried on enough examples, and a slow machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unit", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("unit")
