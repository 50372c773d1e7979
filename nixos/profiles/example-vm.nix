# Ten lines that make a judging host of a virtual machine.
{
  imports = [ ./vm.nix ];

  services.evalhost = {
    enable = true;
    server.url = "https://judge.example.org/api/v1";
    egress.resolvers = [ "192.0.2.53" ];
  };

  networking.hostName = "judge-vm";
  system.stateVersion = "26.05";
}
