"""The two images, built and run without a Docker engine: Debian's buildah, namespaces of the kernel, and root."""
