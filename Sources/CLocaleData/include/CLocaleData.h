// Nothing to call: it only needs to be linked (Scripts/build-static).
