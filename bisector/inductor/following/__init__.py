"""The compiled run followed node by node against eager: what each node adds, and what it passes on."""
