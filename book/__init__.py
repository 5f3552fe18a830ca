"""The course as a site of HTML pages, made from the stored notebooks: `make book`."""
