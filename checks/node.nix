# A judging host as a node of a VM test: as deployed, but for a Server that is another node and for fewer languages.
{ lib, ... }:
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
  };

  virtualisation = {
    # The root file system is in memory, as on every host of ours.
    diskImage = null;
    memorySize = lib.mkDefault 4096;
    cores = 4;
  };
}
