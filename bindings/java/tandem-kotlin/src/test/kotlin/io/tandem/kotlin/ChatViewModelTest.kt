package io.tandem.kotlin

import io.tandem.GenerateConfig
import io.tandem.LlmModule
import io.tandem.example.Assistant
import io.tandem.example.ChatLine
import io.tandem.example.ChatState
import io.tandem.example.ChatViewModel
import io.tandem.example.ModuleAssistant
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.Job
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.job
import kotlinx.coroutines.plus
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.test.advanceTimeBy
import kotlinx.coroutines.test.advanceUntilIdle
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

@OptIn(ExperimentalCoroutinesApi::class)
class ChatViewModelTest {
    /** A piece every 10 ms of virtual time. */
    private class Fake(private val pieces: List<String> = listOf("a", "b", "c")) : Assistant {
        var running = 0
        var resets = 0
        var failure: Exception? = null

        override fun answer(prompt: String): Flow<String> = flow {
            check(running++ == 0) { "two answers at a time" }
            try {
                for (piece in pieces) {
                    delay(10)
                    emit(piece)
                }
                failure?.let { throw it }
            } finally {
                --running
            }
        }

        override fun reset() {
            check(running == 0) { "reset while answering" }
            ++resets
        }
    }

    private fun user(text: String) = ChatLine(true, text)

    private fun model(text: String) = ChatLine(false, text)

    @Test
    fun anAnswerAppearsPieceByPiece() = runTest {
        val chat = ChatViewModel(Fake(), this)
        chat.send("  Hi ")
        runCurrent()
        assertEquals(ChatState(listOf(user("Hi"), model("")), answering = true), chat.state.value)
        advanceTimeBy(21)
        assertEquals(ChatState(listOf(user("Hi"), model("ab")), answering = true), chat.state.value)
        advanceUntilIdle()
        assertEquals(ChatState(listOf(user("Hi"), model("abc"))), chat.state.value)
    }

    @Test
    fun stopKeepsWhatCame() = runTest {
        val fake = Fake()
        val chat = ChatViewModel(fake, this)
        chat.stop()
        chat.send("Hi")
        advanceTimeBy(11)
        chat.stop()
        advanceUntilIdle()
        assertEquals(ChatState(listOf(user("Hi"), model("a"))), chat.state.value)
        assertEquals(0, fake.running)
        chat.send("And?")
        runCurrent()
        chat.stop()
        advanceUntilIdle()
        assertEquals(listOf(user("Hi"), model("a"), user("And?")), chat.state.value.lines)
        assertFalse(chat.state.value.answering)
    }

    @Test
    fun aNewMessageStopsTheAnswerBeforeIt() = runTest {
        val chat = ChatViewModel(Fake(), this)
        chat.send("one")
        advanceTimeBy(11)
        chat.send("two")
        chat.send("   ")
        advanceUntilIdle()
        assertEquals(listOf(user("one"), model("a"), user("two"), model("abc")), chat.state.value.lines)
        assertNull(chat.state.value.error)
    }

    @Test
    fun impatientUsersDoNotConfuseIt() = runTest {
        val chat = ChatViewModel(Fake(), this)
        chat.send("one")
        advanceTimeBy(11)
        chat.send("two")
        chat.stop()
        advanceUntilIdle()
        assertEquals(ChatState(listOf(user("one"), model("a"))), chat.state.value)
        repeat(5) { chat.send("again") }
        chat.reset()
        chat.send("three")
        advanceUntilIdle()
        assertEquals(ChatState(listOf(user("one"), model("a"), user("three"), model("abc"))), chat.state.value)
    }

    @Test
    fun anErrorIsShownAndTheNextMessageClearsIt() = runTest {
        val fake = Fake(emptyList()).apply { failure = IllegalStateException("the context is full") }
        val chat = ChatViewModel(fake, this)
        chat.send("Hi")
        advanceUntilIdle()
        assertEquals(ChatState(listOf(user("Hi")), error = "the context is full"), chat.state.value)
        fake.failure = null
        chat.send("Hi")
        runCurrent()
        assertNull(chat.state.value.error)
    }

    @Test
    fun resetWaitsForTheAnswerToEnd() = runTest {
        val fake = Fake()
        val chat = ChatViewModel(fake, this)
        chat.send("Hi")
        advanceTimeBy(11)
        chat.reset()
        advanceUntilIdle()
        assertEquals(ChatState(), chat.state.value)
        assertEquals(1, fake.resets)
        assertEquals(0, fake.running)
    }

    @Test
    fun theRealModelAnswers() = runBlocking {
        val job = Job(coroutineContext.job)
        LlmModule(System.getProperty("tandem.model")).use { module ->
            val chat = ChatViewModel(ModuleAssistant(module, GenerateConfig.greedy()), this + job)
            withTimeout(60_000) {
                chat.send("Tell me a story about a fox named Leo.")
                chat.state.first { "Leo" in it.lines.lastOrNull()?.text.orEmpty() && !it.lines.last().fromUser }
                chat.send("Tell me a story about a bear named Mia.")
                val done = chat.state.first { it.lines.size == 4 && !it.answering }
                assertNull(done.error)
                assertTrue("Leo" in done.lines[1].text, done.toString())
                assertTrue(done.lines[3].text.isNotEmpty(), done.toString())
                assertEquals(4, module.conversation().size)
                chat.reset()
                chat.state.first { it.lines.isEmpty() }
                assertTrue(module.conversation().isEmpty())
            }
            job.cancelAndJoin()
        }
    }
}
