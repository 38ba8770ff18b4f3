# Untested: no Spack ran it. Spack 0.22 or later; from a checkout:
#
#   spack repo add CHECKOUT/packaging/spack
#   spack develop --path CHECKOUT gdr@main
#   spack install gdr@main
from spack.package import *


class Gdr(Package):
    """Tells whether NVIDIA GPUDirect works on a machine, why not, and proves it. With the libraries libgdrapi and libgdsync."""

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    # It opens CUDA, NVML and rdma-core at run time, so it depends on none of them.
    depends_on("rust@1.95:", type="build")
    depends_on("c", type="build")

    def install(self, spec, prefix):
        cargo = which("cargo")
        cargo("install", "--locked", "--root", prefix, "--path", ".")
        cargo("run", "--locked", "--package", "xtask", "--", "install-capi", "--library", "gdrapi", "--library", "gdsync",
              "--prefix", prefix)
        install_tree("docs/man", prefix.share.man.man1)
        install_tree("profiles", join_path(prefix.share.gdr, "profiles"))
        mkdirp(prefix.share.join("bash-completion/completions"))
        install("completions/gdr.bash", prefix.share.join("bash-completion/completions/gdr"))
