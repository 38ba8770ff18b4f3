/*
 * CPU waits for missing completions (run with GDS_CPU_WAIT_TIMEOUT_MS=300): unfinished requests can be posted again; destroying a queue
 * pair ends the wait of another thread.
 */
#include "pair.h"

#include <pthread.h>

static void *destroy_soon(void *qp)
{
    usleep(50000);
    EQUALS(0, gds_destroy_qp(qp));
    return NULL;
}

int main(void)
{
    start();
    /* Ends a program that hangs. */
    alarm(120);
    struct side near = new_side(near_nic()), far = new_side(remote_nic());
    near.may_stay = far.may_stay = 1;
    join(&near, &far, gds_modify_qp);

    /* The first list waits for the message of the second one, so it times out, and its send is not rung. */
    gds_send_request_t send;
    gds_wait_request_t received, sent;
    post_receive(&far, 7, 0, 64);
    struct ibv_sge sge = sge_of(&near, 0, 64);
    gds_send_wr wr = work(9, IBV_WR_SEND, &sge, 1), *bad = NULL;
    EQUALS(0, gds_prepare_send(near.qp, &wr, &bad, &send));
    EQUALS(0, gds_prepare_wait_cq(&far.qp->recv_cq, &received, 0));
    EQUALS(0, gds_prepare_wait_cq(&near.qp->send_cq, &sent, 0));
    memset(near.memory, 0x5a, 64);
    uint32_t flags[2] = {0};
    gds_descriptor_t wrong[] = {
        write_word(flags, 1, GDS_MEMORY_HOST),
        waits(&received),
        sends(&send),
        waits(&sent),
        write_word(flags + 1, 1, GDS_MEMORY_HOST),
    };
    EQUALS(ETIMEDOUT, gds_post_descriptors(5, wrong, 0));
    EQUALS(1, seen(flags));
    EQUALS(0, seen(flags + 1));
    EQUALS(0, far.memory[0]);

    /* In the right order the same requests succeed. */
    gds_descriptor_t right[] = {sends(&send), waits(&sent), waits(&received), write_word(flags + 1, 1, GDS_MEMORY_HOST)};
    EQUALS(0, gds_post_descriptors(4, right, 0));
    EQUALS(1, seen(flags + 1));
    for (int i = 0; i < 64; ++i)
        EQUALS(0x5a, far.memory[i]);
    poll_success(&far.qp->recv_cq, 7, IBV_WC_RECV);
    poll_success(&near.qp->send_cq, 9, IBV_WC_SEND);
    /* They cannot be posted again. */
    EQUALS(EINVAL, gds_post_descriptors(4, right, 0));

    /* A wait that timed out can be abandoned. */
    EQUALS(0, gds_prepare_wait_cq(&far.qp->recv_cq, &received, 0));
    gds_descriptor_t alone = waits(&received);
    EQUALS(ETIMEDOUT, gds_post_descriptors(1, &alone, 0));
    EQUALS(0, gds_post_wait_cq(&far.qp->recv_cq, &received, 0));

    /* Another thread destroys the queue pair: the list ends, although nothing writes the word of the second wait. */
    EQUALS(0, gds_prepare_wait_cq(&near.qp->recv_cq, &received, 0));
    gds_descriptor_t ended[] = {waits(&received), wait_for(flags, 0x77, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST)};
    pthread_t other;
    EQUALS(0, pthread_create(&other, NULL, destroy_soon, near.qp));
    EQUALS(ECANCELED, gds_post_descriptors(2, ended, 0));
    EQUALS(0, pthread_join(other, NULL));
    near.qp = NULL;
    end_side(&near);
    end_side(&far);
    puts("pair_timeout: ok");
    return 0;
}
