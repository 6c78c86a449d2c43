"""How the suite reaches implementations: by an adapter each."""
