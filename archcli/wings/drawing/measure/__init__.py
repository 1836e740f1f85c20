"""What is counted for the page of a drawing."""
