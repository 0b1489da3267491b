"""SQL over the verbs: table functions, statements about indexes, and what a session has to be told of them."""
