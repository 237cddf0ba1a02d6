"""What pages, the API and files show: queries, and nothing that changes a row."""
