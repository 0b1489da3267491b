"""Index kinds. A kind sees data and files; never Spark, never a commit."""
