"""The services' verbs as ``fabric.*`` procedures over JSON-RPC 2.0."""
