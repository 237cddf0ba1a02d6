"""What pages and API show of the machines of the site."""
