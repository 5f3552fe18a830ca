"""What came after 2017: lessons 17 to 19."""
