/*
 * The headers as C and as C++: names, numbers and types of libmp 2.0, and a call of the library.
 */
#include <mp.h>

#include <gdsync.h>
#include <mp/comm.h>
#include <mp/device.cuh>

#include "../../../../tests/support/check.h"

int main(void)
{
    int version = 0;
    CHECK(MP_SUCCESS == 0 && MP_FAILURE == 1 && MP_API_VERSION == 0x20000 && MP_PARAM_VERSION == 0 && MP_NUM_PARAMS == 1);
    CHECK(MP_INIT_DEFAULT == 0 && MP_INIT_WQ_ON_GPU == 1 && MP_INIT_RX_CQ_ON_GPU == 2 && MP_INIT_TX_CQ_ON_GPU == 3);
    CHECK(MP_INIT_DBREC_ON_GPU == 4 && MP_PUT_INLINE == 1 && MP_PUT_NOWAIT == 2);
    CHECK(MP_WAIT_GEQ == 0 && MP_WAIT_EQ == 1 && MP_WAIT_AND == 2);
    CHECK(sizeof(mp_request_t) == 8 && sizeof(mp_reg_t) == 8 && sizeof(mp_window_t) == 8 && sizeof(mp_desc_queue_t) == 8);
    CHECK(MP_API_VERSION_COMPATIBLE(0x20000) && MP_API_VERSION_COMPATIBLE(0x20003));
    CHECK(!MP_API_VERSION_COMPATIBLE(0x10000) && !MP_API_VERSION_COMPATIBLE(0x30000));
#ifdef __cplusplus
    CHECK(sizeof(mp::mlx5::send_desc_t) == 32 && offsetof(mp::mlx5::send_desc_t, db) == 16);
    CHECK(sizeof(mp::mlx5::wait_desc_t) == 40 && offsetof(mp::mlx5::wait_desc_t, sema) == 8);
    CHECK(offsetof(mp::mlx5::wait_desc_t, flag) == 24 && sizeof(comm_dev_descs) == 2840);
    CHECK(offsetof(comm_dev_descs, ready) == 8 && offsetof(comm_dev_descs, n_tx) == 520 && offsetof(comm_dev_descs, tx) == 528);
    CHECK(offsetof(comm_dev_descs, n_wait) == 1552 && offsetof(comm_dev_descs, wait) == 1560);
#endif
    EQUALS(MP_SUCCESS, mp_query_param(MP_PARAM_VERSION, &version));
    EQUALS(MP_API_VERSION, version);
    EQUALS(0, comm_use_comm());
    return 0;
}
