"sha256-S18x32b/7t1JKN4hJnXe0pmmrvQvW1qYurqJtSYzv4s="
