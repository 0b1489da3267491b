"""What the verify verb asks of segments, and what it finds. The verb itself is ``maintain.verify``."""
