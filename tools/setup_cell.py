import sys

REPOSITORY, TAG = "the-course-has-no-address-yet", "main"
if "google.colab" in sys.modules:  # on Colab, fetch the course; elsewhere do nothing
    fetch = f"git clone -q --depth 1 -b {TAG} {REPOSITORY} /content/course"
    get_ipython().system(f"test -d /content/course || {fetch}")
    get_ipython().run_line_magic("run", "/content/course/tools/colab_setup.py")
