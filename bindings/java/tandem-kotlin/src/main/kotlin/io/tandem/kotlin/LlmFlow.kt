/** Answers as flows. Cancelling the coroutine that collects one stops the generation within a token. */
package io.tandem.kotlin

import io.tandem.GenerateConfig
import io.tandem.LlmCallback
import io.tandem.LlmModule
import io.tandem.Message
import io.tandem.StopSignal
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.channelFlow
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext

/**
 * The answer to a prompt within the module's conversation, piece by piece; it is generated anew for each collector.
 *
 * The model computes in [Dispatchers.IO], so that a screen may collect in the main thread. A collector that is slow makes
 * the model wait. Errors are [io.tandem.TandemException]s of the flow. A flow that ends, however it does, has left the
 * module: the next generation may begin. One that is collected while another generation runs fails with
 * [IllegalStateException]: cancelAndJoin() the other one before.
 *
 * @param onStats counts and times at the end of an answer, as JSON; called in a thread of [Dispatchers.IO]
 */
@JvmOverloads
public fun LlmModule.generateFlow(
    prompt: String,
    config: GenerateConfig = GenerateConfig.DEFAULT,
    onStats: (String) -> Unit = {},
): Flow<String> = stream(onStats) { callback, signal -> generate(prompt, config, callback, signal) }

/** The answer to the last of these messages, which become the module's conversation. */
@JvmOverloads
public fun LlmModule.generateFlow(
    messages: List<Message>,
    config: GenerateConfig = GenerateConfig.DEFAULT,
    onStats: (String) -> Unit = {},
): Flow<String> = stream(onStats) { callback, signal -> generate(messages, config, callback, signal) }

/** [LlmModule.load] without blocking the caller's thread. */
public suspend fun LlmModule.loadInBackground(): Unit = withContext(Dispatchers.IO) { load() }

private fun stream(onStats: (String) -> Unit, generate: (LlmCallback, StopSignal) -> Unit): Flow<String> = channelFlow {
    val signal = StopSignal()
    val callback = object : LlmCallback {
        // Fails when the collector is gone, and the exception ends the generation; no signal is lost meanwhile.
        override fun onResult(piece: String) = trySendBlocking(piece).getOrThrow()

        override fun onStats(json: String) = onStats(json)
    }
    // Unconfined: the signal is set by whoever cancels, and not when the collector's thread has time.
    val watcher = launch(Dispatchers.Unconfined) {
        try {
            awaitCancellation()
        } finally {
            signal.stop()
        }
    }
    withContext(Dispatchers.IO) { generate(callback, signal) }
    watcher.cancel()
}
