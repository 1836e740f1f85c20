"""archcli: how big an architecture is, what it computes and caches, and where its time goes."""
