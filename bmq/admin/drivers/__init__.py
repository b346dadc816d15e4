"""How nodes are started and stopped when the cluster is scaled: as processes here, by systemd, by Kubernetes."""
