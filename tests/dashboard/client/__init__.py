"""The script that users put beside their own."""
