"""What every composition needs: paths, links, ports, ends of processes, figures."""
