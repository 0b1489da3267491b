"""What happened: one frozen event per fact, and the sinks that keep or show them."""
