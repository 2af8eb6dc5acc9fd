"""What should be: pure functions from a Site to a Plan. No socket, no process, no clock."""
