// Nothing to check on processors other than x86-64: the program is built for the oldest of them.
