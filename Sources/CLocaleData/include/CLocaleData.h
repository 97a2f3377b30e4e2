// Nothing to call: linking it is its use (Scripts/build-static).
