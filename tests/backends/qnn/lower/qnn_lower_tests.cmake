# Lowering on Qualcomm's library, against the reference interpreter on the same graphs.
tandem_test(qnn_lower DIRS backends/qnn/lower DEPENDS tandem_qnn_lower tandem_reference)
