"""The native board: PostgreSQL with Kanboard's model, one file a resource."""
