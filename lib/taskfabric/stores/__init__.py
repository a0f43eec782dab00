"""PostgreSQL and files behind the ports that are not the board."""
