"""The only room that opens database connections: the embedded server, the pool, the migrations, LISTEN."""
