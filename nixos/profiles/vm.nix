# A virtual machine: one disk image with a boot partition and a read-only store, everything else in memory or on a scratch
# partition made from what is left of the disk. It is updated by replacing the image.
{
  config,
  lib,
  modulesPath,
  pkgs,
  ...
}:
let
  # A type of our own: systemd-repart tells partitions apart by type, and must not take the store for the scratch.
  scratchType = "6f0f5e7c-7d1c-4f6b-9a53-0d2d3a4c9e10";

  # Partitions as repart.d(5) describes them; what is copied into them is added while the image is built.
  definitions = {
    "10-boot" = ''
      [Partition]
      Type=esp
      Format=vfat
      SizeMinBytes=256M
    '';
    "20-store" = ''
      [Partition]
      Type=linux-generic
      Label=evalhost-store
      Format=erofs
      Minimize=best
      ReadOnly=yes
    '';
  };

  image =
    pkgs.runCommand "evalhost-host-image"
      {
        nativeBuildInputs = [
          config.systemd.package
          pkgs.dosfstools
          pkgs.erofs-utils
          pkgs.fakeroot
          pkgs.mtools
        ];
        closure = pkgs.closureInfo { rootPaths = [ config.system.build.toplevel ]; };
      }
      (
        ''
          mkdir definitions "$out"
        ''
        + lib.concatStrings (
          lib.mapAttrsToList (name: text: ''
            cp ${pkgs.writeText name text} definitions/${name}.conf
          '') definitions
        )
        + ''
          chmod u+w definitions/*
          {
            echo "CopyFiles=${config.systemd.package}/lib/systemd/boot/efi/systemd-bootx64.efi:/EFI/BOOT/BOOTX64.EFI"
            echo "CopyFiles=${config.system.build.uki}/${config.system.boot.loader.ukiFile}:/EFI/Linux/${config.system.boot.loader.ukiFile}"
          } >> definitions/10-boot.conf
          while read -r path; do
            echo "CopyFiles=$path:/''${path#${builtins.storeDir}/}"
          done < "$closure/store-paths" >> definitions/20-store.conf

          # A fixed seed: the same content gives the same identifiers, and with them the same bytes.
          fakeroot systemd-repart --architecture=x86-64 --dry-run=no --empty=create --size=auto \
            --seed=0f8fad5b-d9cb-469f-a165-70867728950e --definitions=definitions "$out/evalhost.raw"
        ''
      );
in
{
  imports = [ "${modulesPath}/profiles/qemu-guest.nix" ];

  system.build.hostImage = image;

  # Evaluated as part of a flake, NixOS asks nobody else what machine it is for.
  nixpkgs.hostPlatform = lib.mkDefault "x86_64-linux";

  boot.loader.grub.enable = false;
  boot.uki.name = "evalhost";
  boot.initrd.systemd.enable = lib.mkDefault true;
  boot.initrd.supportedFilesystems = [ "erofs" ];
  boot.kernelParams = [
    "console=tty0"
    "console=ttyS0,115200"
  ];

  fileSystems."/nix/store" = {
    device = "/dev/disk/by-partlabel/evalhost-store";
    fsType = "erofs";
    options = [ "ro" ];
    neededForBoot = true;
  };

  # What the image leaves of the disk becomes the scratch partition at the first boot. It is formatted by the unit that
  # formats it at every boot, not here.
  boot.initrd.systemd.repart = {
    enable = true;
    device = lib.mkDefault "/dev/vda";
  };
  systemd.repart.partitions."90-scratch" = {
    Type = scratchType;
    Label = "evalhost-scratch";
    SizeMinBytes = "4G";
  };
  services.evalhost.scratch.device = lib.mkDefault "/dev/disk/by-partlabel/evalhost-scratch";

  # A guest has no say in it.
  powerManagement.cpuFreqGovernor = null;
}
