"""Records on disk between the application that handed them over and the transaction that produced them."""
