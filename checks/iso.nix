# The ISO boots, by the old firmware or the new one, says what is missing, and judges for whom a second volume names.
{ firmware }:
{
  hostPkgs,
  lib,
  self,
  ...
}:
let
  pkgs = hostPkgs;
  image =
    (self.nixosConfigurations.iso.extendModules {
      modules = [
        # What the console shows must come out of the serial port, where the test reads.
        { boot.kernelParams = lib.mkAfter [ "console=ttyS0,115200" ]; }
      ];
    }).config.system.build.isoImage;

  volume = pkgs.runCommand "evalhost-volume" { nativeBuildInputs = [ pkgs.e2fsprogs ]; } ''
    mkdir tree
    echo 'AJ_Server__BaseUrl=http://10.0.2.2:8080/api/v1' > tree/evalhost.env
    truncate -s 8M "$out"
    mkfs.ext4 -q -L EVALHOST -d tree "$out"
  '';

  start =
    drives:
    lib.concatStringsSep " " (
      [
        "${lib.getExe' pkgs.qemu_test "qemu-kvm"}"
        "-cpu max -m 4096 -netdev user,id=net,restrict=y -device virtio-net-pci,netdev=net"
        "-cdrom $(echo ${image}/iso/*.iso)"
      ]
      ++ lib.optionals (firmware == "uefi") [
        "-drive if=pflash,format=raw,unit=0,readonly=on,file=${pkgs.OVMF.firmware}"
        "-drive if=pflash,format=raw,unit=1,readonly=on,file=${pkgs.OVMF.variables}"
      ]
      ++ drives
    );
in
{
  nodes = { };

  testScript = ''
    def boots(name, command):
        machine = create_machine(command, name=name)
        machine.start()
        return machine

    with subtest("without a configuration it says what is missing"):
        silent = boots("silent", r"""${start [ ]}""")
        silent.wait_for_console_text("no Server is named")
        silent.wait_for_console_text("This machine judges nothing until it is told")
        silent.crash()

    with subtest("with a volume it judges for the Server named there"):
        told = boots("told", r"""${start [ "-drive file=${volume},format=raw,if=virtio,readonly=on" ]}""")
        told.wait_for_console_text("judging for http://10.0.2.2:8080/api/v1")
        told.crash()
  '';
}
