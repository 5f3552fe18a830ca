"""What came after 2017: the parts of a block as Llama has it (lesson 17)."""
