# A judging host as a node of a VM test: as deployed, but for a Server that is another node and for fewer languages.
{ config, lib, ... }:
{
  services.evalhost = {
    enable = true;
    server = {
      url = "http://192.168.1.100:8080/api/v1";
      addresses = [ "192.168.1.100" ];
    };
    egress.timeServers = [ "192.168.1.100" ];
    languages = lib.mkDefault [
      "c"
      "python3"
    ];
    # The first disk, since the root file system is in memory: images, layers and what the host check wants to be free
    # would need more of that than a machine that runs several of these has.
    scratch.device = lib.mkDefault "/dev/vda";
  };

  virtualisation = {
    # The root file system is in memory, as on every host of ours, and the store takes no writes.
    diskImage = null;
    # The driver's own file systems replace the module's, and one in memory that nobody bounds is writable by everybody.
    fileSystems."/".options = [
      "mode=0755"
      "size=${config.services.evalhost.scratch.memory}"
    ];
    writableStore = false;
    emptyDiskImages = lib.mkDefault [ 16384 ];
    memorySize = lib.mkDefault 4096;
    cores = 4;
  };

  # The driver would let anybody in as root without a password. It comes in by another way.
  users.users.root.hashedPasswordFile = lib.mkForce null;
}
