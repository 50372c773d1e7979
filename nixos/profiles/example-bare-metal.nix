# A judging host on a machine of its own: four lanes on eight processors, a key that survives, and a way to update.
{
  imports = [ ./bare-metal.nix ];

  services.evalhost = {
    enable = true;
    server = {
      url = "https://judge.example.org/api/v1";
      addresses = [ "203.0.113.7" ];
    };
    tags = [ "finals" ];
    problemTypes = [
      "standard-io@1"
      "output-only@1"
    ];
    processors = "2-9";
    lanes = 4;
    identity.device = "/dev/disk/by-partlabel/evalhost-identity";
    egress = {
      resolvers = [ "192.0.2.53" ];
      timeServers = [ "192.0.2.123" ];
    };
  };

  users.users.root.openssh.authorizedKeys.keys = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f example"
  ];

  networking.hostName = "judge-1";
  system.stateVersion = "26.05";
}
