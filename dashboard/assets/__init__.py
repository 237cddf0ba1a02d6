"""Where the browser's files come from, and how they are named."""
