"""What every store must do, through the public API only: a backend is whatever passes this."""
