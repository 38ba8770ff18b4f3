# Untested: no nixpkgs was at hand. nix build 'git+file:CHECKOUT?dir=packaging/nix'
{
  description = "Tells whether NVIDIA GPUDirect works on a machine, why not, and proves it";

  # Rust 1.95 or later.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = nixpkgs.lib.genAttrs systems;
    in
    {
      packages = each (system:
        let pkgs = nixpkgs.legacyPackages.${system}; in
        {
          default = pkgs.rustPlatform.buildRustPackage {
            pname = "gdr";
            version = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).workspace.package.version;
            src = ../..;
            cargoLock.lockFile = ../../Cargo.lock;
            cargoBuildFlags = [ "--package" "gdr" ];
            # They want a machine with /sys, and programs of Debian.
            doCheck = false;
            nativeBuildInputs = [ pkgs.installShellFiles ];
            postInstall = ''
              installManPage docs/man/*.1
              installShellCompletion --bash completions/gdr.bash --zsh completions/_gdr --fish completions/gdr.fish
            '';
            meta = {
              license = with pkgs.lib.licenses; [ mit asl20 ];
              platforms = systems;
              mainProgram = "gdr";
            };
          };
        });
    };
}
