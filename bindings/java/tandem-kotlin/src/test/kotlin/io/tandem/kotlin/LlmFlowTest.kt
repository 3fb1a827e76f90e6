package io.tandem.kotlin

import io.tandem.GenerateConfig
import io.tandem.LlmModule
import io.tandem.Message
import io.tandem.TandemException
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.atomic.AtomicInteger
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlinx.coroutines.yield
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class LlmFlowTest {
    private val prompt = "Tell me a story about a fox named Leo."
    private val endless = GenerateConfig.builder().temperature(0.0).ignoreEos(true).build()

    private fun greedy(tokens: Int) = GenerateConfig.builder().temperature(0.0).maxNewTokens(tokens).build()

    private fun <T> withModule(body: suspend (LlmModule) -> T): T =
        LlmModule(System.getProperty("tandem.model")).use { module ->
            runBlocking { withTimeout(60_000) { body(module) } }
        }

    @Test
    fun aFlowIsTheAnswer() = withModule { module ->
        module.loadInBackground()
        val stats = CopyOnWriteArrayList<String>()
        val pieces = module.generateFlow(prompt, GenerateConfig.greedy()) { stats += it }.toList()
        assertTrue(pieces.size > 20)
        assertEquals(1, stats.size)
        assertTrue("\"finish\":\"stop\"" in stats[0], stats[0])
        module.resetContext()
        assertEquals(module.generate(prompt, GenerateConfig.greedy()).text(), pieces.joinToString(""))
        val again = module.generateFlow(listOf(Message.user(prompt)), GenerateConfig.greedy()).toList()
        assertEquals(pieces, again)
    }

    @Test
    fun aCollectorThatHasEnoughStopsTheGeneration() = withModule { module ->
        val stats = CopyOnWriteArrayList<String>()
        assertEquals(3, module.generateFlow(prompt, endless) { stats += it }.take(3).toList().size)
        // The module is free at once, and no request to stop is left over.
        repeat(20) {
            assertEquals(3, module.generateFlow(prompt, endless).take(3).toList().size)
            assertEquals(5, module.generate("Hi", greedy(5)).tokens().size)
            module.resetContext()
        }
    }

    @Test
    fun cancellingTheCoroutineCancelsTheGeneration() = withModule { module ->
        val started = CompletableDeferred<Unit>()
        val pieces = AtomicInteger()
        val job = kotlinx.coroutines.CoroutineScope(Dispatchers.Default).launch {
            module.generateFlow(prompt, endless).collect {
                pieces.incrementAndGet()
                started.complete(Unit)
            }
        }
        started.await()
        job.cancelAndJoin()
        val then = pieces.get()
        assertEquals(5, module.generate("Hi", greedy(5)).tokens().size)
        assertEquals(then, pieces.get())
    }

    @Test
    fun cancellingBeforeTheFirstTokenIsNotLost() = withModule { module ->
        repeat(100) {
            val job = kotlinx.coroutines.CoroutineScope(Dispatchers.Default).launch {
                module.generateFlow(prompt, endless).collect {}
            }
            if (it % 2 == 0) yield()
            job.cancelAndJoin() // ENDLESS would run until the context is full, 2000 tokens later.
            module.resetContext()
        }
    }

    @Test
    fun errorsAreExceptionsOfTheFlow() {
        LlmModule("/no/such/file.tdm").use { module ->
            assertThrows(TandemException::class.java) { runBlocking { module.generateFlow("Hi").collect() } }
        }
        withModule { module ->
            val error = runCatching { module.generateFlow(prompt, endless).collect { error("mine") } }
            assertEquals("mine", error.exceptionOrNull()?.message)
            assertEquals(5, module.generate("Hi", greedy(5)).tokens().size)
        }
    }

    @Test
    fun aSlowCollectorMakesTheModelWait() = withModule { module ->
        val pieces = StringBuilder()
        module.generateFlow(prompt, greedy(100)).collect {
            delay(1)
            pieces.append(it)
        }
        module.resetContext()
        assertEquals(module.generate(prompt, greedy(100)).text(), pieces.toString())
    }
}
