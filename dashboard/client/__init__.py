"""The file that users put beside their own tuning scripts. The site serves it and never imports it."""
