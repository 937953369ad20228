"""Episodes: exchanges between user and assistant, one by one."""
