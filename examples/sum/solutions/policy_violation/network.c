/* Would ask somebody else for the sum. Never compiled: the header is not allowed. */
#include <stdio.h>
#include <sys/socket.h>

int main(void) {
    printf("%d\n", socket(AF_INET, SOCK_STREAM, 0));
    return 0;
}
