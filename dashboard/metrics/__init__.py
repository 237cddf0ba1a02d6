"""What Prometheus and the Metrics page show: this process's requests and sockets, and the state of the site."""
