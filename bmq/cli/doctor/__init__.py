"""`bmq doctor`: what is wrong with the machine of a node and with what the node needs."""
