# The disk image of a virtual machine boots, makes its scratch of what is left of the disk, joins its Server and judges; after
# a power cut as well, with the partition that is there already.
{
  hostPkgs,
  lib,
  programs,
  self,
  ...
}:
let
  pkgs = hostPkgs;
  medium = import ./medium.nix {
    inherit lib pkgs programs;
    firmware = "uefi";
    memory = 8192;
  };
  image =
    (self.nixosConfigurations.example-vm.extendModules {
      modules = [
        {
          services.evalhost.server = {
            url = lib.mkForce medium.url;
            addresses = [ "10.0.2.2" ];
          };
        }
      ];
    }).config.system.build.hostImage;
in
{
  nodes = { };

  testScript = ''
    ${medium.script}
    disk = "/tmp/disk.qcow2"
    subprocess.run(
        ["${lib.getExe' pkgs.qemu_test "qemu-img"}", "create", "-q", "-f", "qcow2", "-F", "raw",
         "-b", "${image}/evalhost.raw", disk, "32G"],
        check=True,
    )
    command = r"""${medium.start [ "-drive file=/tmp/disk.qcow2,format=qcow2,if=virtio" ]}"""

    for boot in ["first", "second"]:
        with subtest(f"at its {boot} boot it judges"):
            # A Server of its own for each: the machine keeps nothing, so each time another Runner joins.
            server = serve()
            machine = boots(boot, command)
            judges()
            machine.crash()
            server.kill()
            server.wait()
  '';
}
