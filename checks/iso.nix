# The ISO boots, by the old firmware or the new one, says what is missing, and judges for whom a second volume names.
{ firmware }:
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
    inherit
      firmware
      lib
      pkgs
      programs
      ;
    # Half of it is all that may be written. Four images have to fit there without being compressed, the one that is being loaded
    # twice, and more than the host check asks for has to be left.
    memory = 12288;
  };
  image =
    (self.nixosConfigurations.iso.extendModules {
      modules = [
        # What the console shows must come out of the serial port, where the test reads.
        { boot.kernelParams = lib.mkAfter [ "console=ttyS0,115200" ]; }
      ];
    }).config.system.build.isoImage;

  volume = pkgs.runCommand "evalhost-volume" { nativeBuildInputs = [ pkgs.e2fsprogs ]; } ''
    mkdir tree
    echo 'AJ_Server__BaseUrl=${medium.url}' > tree/evalhost.env
    truncate -s 8M "$out"
    mkfs.ext4 -q -L EVALHOST -d tree "$out"
  '';

  start = drives: medium.start ([ "-cdrom $(echo ${image}/iso/*.iso)" ] ++ drives);
in
{
  nodes = { };

  testScript = ''
    ${medium.script}
    with subtest("without a configuration it says what is missing"):
        silent = boots("silent", r"""${start [ ]}""")
        silent.wait_for_console_text("no Server is named")
        silent.wait_for_console_text("This machine judges nothing until it is told")
        silent.crash()

    with subtest("with a volume it judges for the Server named there"):
        server = serve()
        told = boots("told", r"""${start [ "-drive file=${volume},format=raw,if=virtio,readonly=on" ]}""")
        told.wait_for_console_text("judging for ${medium.url}")
        judges()
        told.crash()
        server.kill()
  '';
}
